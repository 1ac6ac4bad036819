import { DefaultLogger, Runtime } from '@temporalio/worker';

// One runtime per process, and it must come before the first native connection: imported for this effect.
Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: [] });
