import type { TestServer } from './dev-server.js';
import { until } from './worker-process.js';

/** Makes a version of a deployment current, once the server knows its worker. */
export async function makeCurrent(
  { client, namespace }: Pick<TestServer, 'client' | 'namespace'>,
  version: { deploymentName: string; buildId: string },
): Promise<void> {
  const request = { namespace, ...version, identity: 'test' };
  const isSet = () =>
    client.workflowService.setWorkerDeploymentCurrentVersion(request).then(
      () => true,
      () => false,
    );
  await until(isSet, `the version ${version.buildId} to be current`);
}
