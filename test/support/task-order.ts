/**
 * A proxy between a worker and the time-skipping server. That server loses a workflow task for ever, and time with it,
 * if the task cancels an activity whose result came while the task was out (`ACTIVITY_UNKNOWN`; a Temporal server
 * takes it). So the result of an activity waits here until no workflow task is out.
 */
import { connect, constants, createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';

const SERVICE = '/temporal.api.workflowservice.v1.WorkflowService/';
const GIVES_TASK = ['PollWorkflowTaskQueue', 'RespondWorkflowTaskCompleted'];
const ENDS_TASK = ['RespondWorkflowTaskCompleted', 'RespondWorkflowTaskFailed', 'RespondQueryTaskCompleted'];
const ENDS_ACTIVITY = ['RespondActivityTaskCompleted', 'RespondActivityTaskFailed', 'RespondActivityTaskCanceled'];
/** A worker that dies with a task must not hold results for ever. */
const MAX_HOLD_MS = 10_000;
/** The bytes before a gRPC message, and the tag of its first field: the token of a task, or a task. */
const [PREFIX_BYTES, FIRST_FIELD] = [5, 0x0a];

export interface TaskOrder {
  address: string;
  close(): void;
}

/** Listens in front of the server at this address. */
export async function startTaskOrder(address: string): Promise<TaskOrder> {
  const behind = connect(`http://${address}`);
  behind.on('error', () => {});
  const tasks = new TasksOut();
  const server = createServer();
  server.on('sessionError', () => {});
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    void forward(stream, headers);
  });
  async function forward(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): Promise<void> {
    const method = String(headers[':path']).replace(SERVICE, '');
    if (ENDS_ACTIVITY.includes(method)) await tasks.untilNone();
    if (stream.destroyed) return;
    const { 'grpc-accept-encoding': _, ...asked } = headers; // a compressed response could not be read here
    const request = behind.request(asked);
    request.on('error', () => stream.destroy());
    stream.on('close', () => request.close(constants.NGHTTP2_CANCEL));
    stream.pipe(request);
    request.once('response', (response, flags) => {
      const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
      stream.respond(response, isWhole ? { endStream: true } : { waitForTrailers: true });
    });
    request.once('data', (first: Buffer) => {
      if (GIVES_TASK.includes(method) && first[PREFIX_BYTES] === FIRST_FIELD) tasks.begin();
    });
    let trailers: IncomingHttpHeaders = {};
    request.once('trailers', (given) => (trailers = given));
    stream.once('wantTrailers', () => stream.sendTrailers(trailers));
    if (ENDS_TASK.includes(method)) request.once('close', () => tasks.end());
    request.pipe(stream);
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const sessions = new Set<{ destroy(): void }>();
  server.on('session', (session) => void sessions.add(session));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      for (const session of sessions) session.destroy();
      server.close();
      behind.destroy();
    },
  };
}

/** The workflow tasks that a worker has. */
class TasksOut {
  #count = 0;
  readonly #waiting = new Set<() => void>();

  begin(): void {
    this.#count += 1;
  }

  end(): void {
    this.#count = Math.max(0, this.#count - 1);
    if (this.#count === 0) for (const go of this.#waiting) go();
  }

  async untilNone(): Promise<void> {
    while (this.#count > 0) {
      await new Promise<void>((resolve) => {
        const go = () => {
          clearTimeout(timer);
          this.#waiting.delete(go);
          resolve();
        };
        const timer = setTimeout(() => {
          this.#count = 0;
          go();
        }, MAX_HOLD_MS);
        this.#waiting.add(go);
      });
    }
  }
}
