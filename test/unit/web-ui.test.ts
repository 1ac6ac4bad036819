import { expect, test } from 'vitest';
import { jobUrl, listUrl, webUiOf, webUiViews } from '../../src/client/web-ui.js';

const ui = { url: 'http://127.0.0.1:8233', namespace: 'default' };

function clientOf(address: unknown, namespace = 'default') {
  return { connection: { options: { address } }, options: { namespace } } as unknown as Parameters<typeof webUiOf>[0];
}

test.each([
  ['acme.a2dd6.tmprl.cloud:7233', 'https://cloud.temporal.io'],
  ['eu-west-1.aws.api.temporal.io:7233', 'https://cloud.temporal.io'],
])('the web UI of a client of %s is at %s', (address, url) => {
  expect(webUiOf(clientOf(address))).toEqual({ url, namespace: 'default' });
});

// On this machine something else may listen beside a server, or nothing: of a tunnel, or of containers.
test.each(['127.0.0.1:7233', 'temporal.internal:7233', 'localhost', 'tmprl.cloud.example:7233', undefined, 7])(
  'the web UI of a server at %s is not known unless its address is given',
  (address) => {
    expect(webUiOf(clientOf(address))).toBeNull();
    expect(webUiOf(clientOf(address), 'https://ui.example.com/temporal/')).toEqual({
      url: 'https://ui.example.com/temporal',
      namespace: 'default',
    });
  },
);

test('a job’s link leads to the page with its summary, whatever its id and namespace hold', () => {
  expect(jobUrl(ui, { workflowId: 'agent-job/a%2Fb/ü?#', runId: 'run-1' })).toBe(
    'http://127.0.0.1:8233/namespaces/default/workflows/agent-job%2Fa%252Fb%2F%C3%BC%3F%23/run-1/user-metadata',
  );
  expect(jobUrl({ ...ui, namespace: 'a/b' }, { workflowId: 'x' })).toBe(
    'http://127.0.0.1:8233/namespaces/a%2Fb/workflows/x',
  );
});

test('each list of the dashboard is a link that carries its query', () => {
  const views = webUiViews(ui, new Date('2026-07-01T23:59:59.999Z'));
  expect(views).toHaveLength(4);
  for (const { url, query } of views) {
    expect(url).toBe(listUrl(ui, query));
    expect(new URL(url).searchParams.get('query')).toBe(query);
  }
  expect(views[2]?.query).toContain(`CloseTime >= '2026-07-01T00:00:00.000Z'`);
});
