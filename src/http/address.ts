/** Which project and job a path names. Only the decoded parts count, never how the path begins. */
import { agentJobOf, agentJobWorkflowId } from '../contract.js';
import { ID } from '../contract/kinds.js';
import { InvalidInputError } from '../contract/errors.js';
import { KEY } from '../operations/arguments.js';
import { Problem, readOr400 } from './problem.js';

/** What a path names; `projectId` is null if another client made up the workflow id. */
interface Address {
  readonly projectId: string | null;
  /** Null where the path names a project alone. */
  readonly workflowId: string | null;
}

/** The address of a path that names neither. */
export const NOWHERE: Address = { projectId: null, workflowId: null };

/** Matches the paths of a template: the parts that it names in curly brackets, as they came. */
export function patternOf(template: string): RegExp {
  return new RegExp(`^${template.replace(/\{(\w+)\}/g, '(?<$1>[^/]*)')}$`);
}

/** Decodes what a pattern found; throws a problem 400. */
export function readAddress({ projectId: project = '', key, id }: Record<string, string>): Address {
  try {
    if (id !== undefined) return addressOfId(id);
    const projectId = ID.check(decode(project), 'projectId');
    return {
      projectId,
      workflowId: key === undefined ? null : agentJobWorkflowId(projectId, KEY.check(decode(key), 'key')),
    };
  } catch (error) {
    throw error instanceof InvalidInputError ? new Problem(400, `the path: ${error.message}`) : error;
  }
}

/** The second address of a job, which has no encoded slash that a proxy could decode. */
export function jobPath(workflowId: string): string {
  return `/v1/jobs/${Buffer.from(workflowId).toString('base64url')}`;
}

function addressOfId(id: string): Address {
  const workflowId = Buffer.from(id, 'base64url').toString();
  if (jobPath(workflowId) !== `/v1/jobs/${id}` || !/^\P{Cc}+$/u.test(workflowId)) {
    throw new Problem(400, 'the path: the id must be the base64url of a workflow id, without padding');
  }
  const named = agentJobOf(workflowId);
  if (named === null) return { projectId: null, workflowId };
  KEY.check(named.key ?? 'attached', 'key');
  return { projectId: ID.check(named.projectId, 'projectId'), workflowId };
}

function decode(part: string): string {
  return readOr400('the path: a part of it is not percent-encoded UTF-8', () => decodeURIComponent(part));
}
