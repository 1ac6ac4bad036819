/**
 * All shapes that callers see: inputs with the tables that their parsers check with, outputs by the names of their
 * types, and the messages of each workflow.
 */
import { z } from 'zod';
import {
  AGENT_JOB_WORKFLOW,
  FAILURE,
  JOIN_FAILURE,
  JOIN_JOB_ACTIVITY,
  REQUEST_QUEUE_WORKFLOW,
  VISITOR_EXPORT_WORKFLOW,
} from '../../src/contract.js';
import { FLAG, optional, schemaOf, TEXT, type JsonSchema } from '../../src/contract/kinds.js';
import { ADOPT, ATTACH_JOB, ATTRIBUTION, CREATE_JOB, FOLLOW_UP, OTHER_DECISION } from '../../src/agent-job/fields.js';
import { CHECKED_FIELDS } from '../../src/exports/snapshots/manifest.js';
import { RANGE_EXPORT, SCHEDULED_EXPORT } from '../../src/exports/input.js';

/** A reference to a shape. */
function ref(name: string): JsonSchema {
  return { $ref: `#/$defs/${name}` };
}

/** What callers send, by the name of its type. */
export const INPUTS: Record<string, JsonSchema> = {
  AgentJobInput: { oneOf: [ref('CreateJobInput'), ref('AttachJobInput')] },
  CreateJobInput: schemaOf(CREATE_JOB),
  AttachJobInput: schemaOf(ATTACH_JOB),
  FollowUpInput: schemaOf(FOLLOW_UP),
  ResolveUnknownInput: {
    oneOf: [schemaOf({ ...ADOPT, ...ATTRIBUTION }), schemaOf({ ...OTHER_DECISION, ...ATTRIBUTION })],
  },
  Attribution: schemaOf(ATTRIBUTION),
  JoinJobInput: {
    type: 'object',
    properties: { workflowId: TEXT.schema(), job: ref('AgentJobInput'), hidePrompts: optional(FLAG).schema() },
    required: ['workflowId', 'job'],
  },
  VisitorExportInput: { oneOf: [ref('VisitorExportRangeInput'), ref('ScheduledExportInput')] },
  VisitorExportRangeInput: { ...schemaOf(RANGE_EXPORT), 'x-rule': 'dateTo is later than dateFrom' },
  ScheduledExportInput: schemaOf(SCHEDULED_EXPORT),
};

/** What callers read, by the names of the types. Types that these refer to follow. */
export const OUTPUTS: readonly string[] = [
  'AgentJobResult',
  'JobState',
  'FollowUpAnswer',
  'VisitorExportResult',
  'VisitorExportProgress',
  'RequestQueueState',
  'QueuePlace',
  'SnapshotManifest',
  'InvalidInputDetails',
  'CreateRejectedDetails',
  'UnknownOutcomeDetails',
  'ExportRejectedDetails',
  'SnapshotStoreFailedDetails',
  'ExportFailureDetails',
  'FailedDaysDetails',
  'AgentJobMemo',
  'AgentJobSearchAttributes',
];

/** Bounds of outputs that a reader of this project checks, field by field. */
export const CHECKED_OUTPUTS: Readonly<Record<string, JsonSchema>> = {
  SnapshotManifest: z.toJSONSchema(CHECKED_FIELDS, { io: 'input' }),
};

/** A workflow that callers start, or only ask; or an activity that their workflows ask. */
export interface WorkflowShape {
  readonly type: string;
  /** Null if callers start none. */
  readonly input: string | null;
  readonly result: string | null;
  /** What the details of each type of failure may be. */
  readonly failures: Readonly<Record<string, readonly string[]>>;
  /** Names of the definitions in `src/contract.ts`. */
  readonly messages: readonly string[];
}

export const WORKFLOWS: readonly WorkflowShape[] = [
  {
    type: AGENT_JOB_WORKFLOW,
    input: 'AgentJobInput',
    result: 'AgentJobResult',
    failures: {
      [FAILURE.invalidInput]: ['InvalidInputDetails'],
      [FAILURE.createRejected]: ['CreateRejectedDetails'],
      [FAILURE.unknownOutcome]: ['UnknownOutcomeDetails'],
    },
    messages: ['followUpSignal', 'pollNowSignal', 'sendFollowUpUpdate', 'resolveUnknownUpdate', 'jobStateQuery'],
  },
  {
    type: JOIN_JOB_ACTIVITY,
    input: 'JoinJobInput',
    result: 'AgentJobResult',
    failures: {
      [FAILURE.invalidInput]: ['InvalidInputDetails'],
      [FAILURE.createRejected]: ['CreateRejectedDetails'],
      [FAILURE.unknownOutcome]: ['UnknownOutcomeDetails'],
      ...Object.fromEntries(Object.values(JOIN_FAILURE).map((type) => [type, []])),
    },
    messages: [],
  },
  {
    type: VISITOR_EXPORT_WORKFLOW,
    input: 'VisitorExportInput',
    result: 'VisitorExportResult',
    failures: {
      [FAILURE.invalidInput]: ['InvalidInputDetails'],
      [FAILURE.exportRejected]: ['ExportRejectedDetails', 'FailedDaysDetails'],
      [FAILURE.snapshotStoreFailed]: ['SnapshotStoreFailedDetails', 'FailedDaysDetails'],
      [FAILURE.upstreamUnavailable]: ['ExportFailureDetails', 'FailedDaysDetails'],
      [FAILURE.exportFailed]: ['ExportFailureDetails', 'FailedDaysDetails'],
    },
    messages: ['visitorExportProgressQuery'],
  },
  {
    type: REQUEST_QUEUE_WORKFLOW,
    input: null,
    result: null,
    failures: {},
    messages: ['requestQueueStateQuery', 'queuePlaceQuery'],
  },
];

/** Definitions of messages between workflows of this project, which callers never send. */
export const INTERNAL_MESSAGES: readonly string[] = ['joinQueueSignal', 'reportRequestSignal', 'requestTurnSignal'];
