/**
 * Loaded before a worker's program: no workflow stays in the worker. The time-skipping server never takes a task back
 * that it keeps for the worker which has the workflow, so after a SIGKILL those workflows would stand still.
 */
import { Worker } from '@temporalio/worker';

const create = Worker.create.bind(Worker);
Worker.create = (options) => create({ ...options, maxCachedWorkflows: 0 });
