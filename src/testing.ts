/** For test suites of callers: a stand-in upstream with scripts and faults, a whole system, and a client alone. */
export * from 'agent-jobs-client/testing';
export { SANDBOX_API_KEY, type ApiKey, type RateLimits } from './sandbox/access.js';
export { SandboxControl, type SandboxCounts } from './sandbox/control.js';
export type { FaultRule, FaultStatus } from './sandbox/faults.js';
export type { CreateRecord, JobScript, JobStep, MessageRecord, ScriptRule } from './sandbox/jobs.js';
export type { OperationCount, OperationCounts, RequestRecord } from './sandbox/request-log.js';
export { startSandbox, type Sandbox, type SandboxOptions } from './sandbox/sandbox.js';
export type { ExpectedSnapshot, VisitorSettings } from './sandbox/visitors.js';
export { startTestSystem, type TestSystem, type TestSystemOptions } from './local/test-system.js';
