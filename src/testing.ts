/**
 * For test suites of the services that use agent-jobs: a stand-in upstream with scripts, faults and a request log, a
 * whole system, and a client without one.
 */
export * from 'agent-jobs-client/testing';
export { SANDBOX_API_KEY, type ApiKey, type RateLimits } from './sandbox/access.js';
export type { ConnectionCount, OperationCount, RequestRecord } from './sandbox/request-log.js';
export { CHAOS_KINDS, type Chaos, type FaultStatus } from './sandbox/armed-faults.js';
export type { ClockSource } from './sandbox/clock.js';
export type { Paging, SandboxCounts } from './sandbox/control.js';
export { SandboxControl } from './sandbox/control.js';
export type { FaultEffect, FaultKind, FaultRule } from './sandbox/armed-faults.js';
export type { JobScript, JobStep } from './sandbox/job-life.js';
export type { CreateRecord, MessageRecord, ScriptRule } from './sandbox/jobs.js';
export { startSandbox, type Sandbox, type SandboxOptions } from './sandbox/sandbox.js';
export type { DriftEvent, VisitorSettings } from './sandbox/visitor-rows.js';
export type { ExpectedSnapshot } from './sandbox/visitors.js';
export { startTestSystem, type TestSystem, type TestSystemOptions } from './local/test-system.js';
