/**
 * Decides that the SDK's runtime, exporter of metrics included, lives while the worker waits for Temporal. The SDK ends
 * it with the last native connection, and so after each failed try to connect.
 *
 * Needs: the private set in which the runtime counts its connections.
 * Can go when: a runtime that was installed lives until it is shut down.
 * Test: `test/private/runtime.test.ts`.
 */
import type { Runtime } from '@temporalio/worker';

/** Keeps the runtime until the process ends. */
export function keepRuntime(runtime: Runtime): void {
  (runtime as unknown as { backRefs: Set<object> }).backRefs.add({});
}
