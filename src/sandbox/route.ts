export const OPERATIONS = ['create', 'message', 'get', 'visitors'] as const;
export type Operation = (typeof OPERATIONS)[number];

/** What a request asks for; ids are decoded from single path segments. */
export type Route =
  | { kind: 'operation'; operation: 'create'; projectId: string }
  | { kind: 'operation'; operation: 'get' | 'message'; projectId: string; jobId: string }
  | { kind: 'operation'; operation: 'visitors'; projectId: string; query: URLSearchParams }
  | { kind: 'control'; command: string }
  | { kind: 'redirectTarget' }
  | { kind: 'unknown' };

const UNKNOWN: Route = { kind: 'unknown' };

function decode(segment: string | undefined): string | undefined {
  if (segment === undefined || segment === '') return undefined;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

function agentRoute(method: string, segments: string[]): Route {
  const [, , , project, noun, job, message] = segments;
  const projectId = decode(project);
  if (projectId === undefined || noun !== 'job') return UNKNOWN;
  if (segments.length === 5 && method === 'POST') {
    return { kind: 'operation', operation: 'create', projectId };
  }
  const jobId = decode(job);
  if (jobId === undefined) return UNKNOWN;
  if (segments.length === 6 && method === 'GET') {
    return { kind: 'operation', operation: 'get', projectId, jobId };
  }
  if (segments.length === 7 && message === 'message' && method === 'POST') {
    return { kind: 'operation', operation: 'message', projectId, jobId };
  }
  return UNKNOWN;
}

function visitorsRoute(method: string, segments: string[], search: string): Route {
  const projectId = decode(segments[3]);
  if (projectId === undefined || segments.length !== 5 || segments[4] !== 'visitors' || method !== 'GET')
    return UNKNOWN;
  return { kind: 'operation', operation: 'visitors', projectId, query: new URLSearchParams(search) };
}

/** Reads a request line as it came: nothing is normalised, so an encoded `../x` stays one segment. */
export function parseRoute(method: string, url: string): Route {
  const queryAt = url.indexOf('?');
  const path = queryAt < 0 ? url : url.slice(0, queryAt);
  const segments = path.split('/');
  if (segments[1] === '__sandbox') {
    return segments[2] === 'redirect-target'
      ? { kind: 'redirectTarget' }
      : { kind: 'control', command: segments.slice(2).join('/') };
  }
  if (segments[1] === 'v2' && segments[2] === 'agent') return agentRoute(method, segments);
  if (segments[1] === 'v1' && segments[2] === 'analytics') {
    return visitorsRoute(method, segments, queryAt < 0 ? '' : url.slice(queryAt + 1));
  }
  return UNKNOWN;
}
