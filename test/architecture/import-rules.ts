/**
 * What each room of src may import: the one table of import rules, checked by `imports.test.ts`. A room is a folder of
 * src, or a file beside the folders (`worker.ts` and `worker/` are one room). A rule that no file uses fails like an
 * import without a rule.
 */
export interface ImportRule {
  /** Rooms whose values it may import, and their types with them. */
  readonly values?: string;
  /** Rooms and packages from which it may import types alone. */
  readonly types?: string;
  /** npm packages; `node` stands for all of Node's own modules. */
  readonly packages?: string;
}

/** Ordered so that a room imports only rooms above it. */
export const IMPORT_RULES: Record<string, ImportRule> = {
  // Names on the wire and pure domain code: workflows, workers and clients share them.
  contract: { types: '@temporalio/common', packages: 'ms' },
  'agent-job': { values: 'contract', packages: '@noble/hashes @temporalio/common @temporalio/workflow ms' },

  'request-queue': { values: 'contract agent-job' },

  // Adapters: the SDK, the settings, the HTTP service, the store.
  temporal: {
    values: 'contract',
    packages:
      'node @temporalio/activity @temporalio/client @temporalio/common @temporalio/proto @temporalio/worker ' +
      '@temporalio/workflow',
  },
  config: { values: 'contract', types: '@temporalio/worker', packages: 'node @temporalio/envconfig ms zod' },
  upstream: { values: 'contract config', packages: 'node ky undici zod' },
  exports: {
    values: 'contract agent-job',
    types: 'upstream',
    packages: 'node @aws-sdk/client-s3 @aws-sdk/lib-storage echarts hyparquet hyparquet-writer zod',
  },

  // What starts and steers from outside; the worker starts jobs for other workflows.
  client: {
    values: 'contract agent-job temporal exports',
    packages: 'node @temporalio/client @temporalio/common',
  },

  // What runs on a worker. Workflow code runs in a sandbox without Node, and knows activities by their types.
  activities: {
    values: 'contract agent-job temporal config upstream exports client',
    packages: 'node @temporalio/activity @temporalio/client @temporalio/common ipaddr.js undici zod',
  },
  workflows: {
    values: 'contract agent-job request-queue temporal exports',
    types: 'activities',
    packages: '@temporalio/common @temporalio/workflow',
  },
  worker: {
    values: 'contract temporal config upstream exports activities',
    types: '@temporalio/common',
    packages: 'node @temporalio/client @temporalio/worker pino',
  },

  // The entries of callers, and what operators run.
  index: { packages: 'agent-jobs-client' },
  starter: { values: 'contract agent-job temporal config client', types: '@temporalio/client @temporalio/common' },
  // The stand-in for the upstream, and what composes everything on one machine.
  sandbox: { values: 'contract', packages: 'node zod' },
  // The one table of what callers do with jobs, and HTTP and the tools of agents over it.
  operations: { values: 'contract agent-job client', types: 'starter', packages: 'node' },
  http: {
    values: 'contract config client operations',
    types: 'starter',
    packages: 'node zod @modelcontextprotocol/server',
  },
  local: {
    values: 'contract agent-job config client starter http worker sandbox',
    types: '@temporalio/client',
    packages: 'node agent-jobs-client',
  },
  testing: { values: 'sandbox local', packages: 'agent-jobs-client' },

  // The command line, which can become each of the programs.
  cli: {
    values: 'contract agent-job temporal config exports worker client operations starter http local',
    types: '@temporalio/client @temporalio/common',
    packages: 'node @modelcontextprotocol/server commander ms',
  },
};

export interface ReachRule {
  readonly entry: string;
  /** Whether what is imported only when it is needed (`import()`) counts too. */
  readonly lazy: boolean;
  /** All packages that may be loaded with the entry, by whatever way. */
  readonly packages: string;
}

/** Which packages are loaded with a file, through all that it imports by value. */
export const REACH_RULES: readonly ReachRule[] = [
  // The workflow sandbox has no Node and no fetch: ky would be bundled without a warning, and fail every workflow task.
  {
    entry: 'workflows/index.ts',
    lazy: true,
    packages: '@noble/hashes @temporalio/common @temporalio/workflow ms',
  },
  // Workflows of other services: what their sandbox has.
  {
    entry: 'agent-job/child.ts',
    lazy: true,
    packages: '@noble/hashes @temporalio/common @temporalio/workflow ms',
  },
  // Anybody may import the contract, in workflow code and in a browser.
  { entry: 'contract.ts', lazy: true, packages: '' },
  // A service that starts jobs loads no worker, no HTTP client and, over a client of its own, no reader of the
  // environment.
  {
    entry: 'starter.ts',
    lazy: false,
    packages: 'node @noble/hashes @temporalio/client @temporalio/common ms',
  },
  // `AgentJobs.connect` loads the reader of the environment besides, and nothing else.
  {
    entry: 'starter.ts',
    lazy: true,
    packages: 'node @noble/hashes @temporalio/client @temporalio/common @temporalio/envconfig ms',
  },
  // A service that encrypts brings its own Temporal packages.
  { entry: 'starter/codec.ts', lazy: true, packages: 'node @temporalio/proto' },
  // The S3 client is loaded where snapshots lie there, Parquet by the first chunk.
  {
    entry: 'worker.ts',
    lazy: false,
    packages:
      'node @noble/hashes @temporalio/activity @temporalio/client @temporalio/common @temporalio/envconfig ' +
      '@temporalio/proto @temporalio/worker ipaddr.js ky ms pino undici zod',
  },
  // `agent-jobs --help` answers at once: a command loads Temporal, Parquet or charts when it runs.
  { entry: 'cli/main.ts', lazy: false, packages: 'node @noble/hashes commander ms' },
];
