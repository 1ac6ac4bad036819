import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { AgentJobs } from '../../src/starter.js';
import type { TestServer } from './dev-server.js';

/**
 * A caller of its own connection that can be made to stand still, as a suspended machine does, before a request leaves.
 */
export interface HeldCaller {
  jobs: AgentJobs;
  /** From its next request of this name on, but for `butFor` of them, whatever it asks waits for `release`. */
  hold(name: string, butFor?: number): void;
  /** Resolves once one waits. */
  isHeld: Promise<void>;
  release(): void;
  /** The request ids of the starts after a closed run that it sent. */
  startsSent: string[];
  close(): Promise<void>;
}

/** The server that a caller connects to. */
export type CallerPlace = Pick<TestServer, 'address' | 'namespace' | 'taskQueue'>;

export async function connectHeldCaller({ address, namespace, taskQueue }: CallerPlace): Promise<HeldCaller> {
  let held = (): void => {};
  let release = (): void => {};
  const isHeld = new Promise<void>((resolve) => (held = resolve));
  const released = new Promise<void>((resolve) => (release = resolve));
  const passes = new Map<string, number>();
  let standsStill = false;
  const startsSent: string[] = [];
  const interceptor: Interceptor = (options, next) => {
    let hasEnded = false;
    return new InterceptingCall(next(options), {
      start(metadata, _, begin) {
        begin(metadata, {
          onReceiveStatus(status, tell) {
            hasEnded = true;
            tell(status);
          },
        });
      },
      sendMessage(message: unknown, send: (message: unknown) => void) {
        const name = options.method_definition.path.split('/').at(-1) ?? '';
        const leave = () => {
          if (!hasEnded) startsSent.push(...requestIdsIn(message));
          send(message);
        };
        const left = passes.get(name) ?? Infinity;
        passes.set(name, left - 1);
        if (left > 0 && !standsStill) return leave();
        standsStill = true;
        held();
        void released.then(leave);
      },
    });
  };
  const connection = await Connection.connect({ address, interceptors: [interceptor] });
  return {
    jobs: new AgentJobs({ client: new Client({ connection, namespace }), taskQueue }),
    hold: (name, butFor = 0) => void passes.set(name, butFor),
    isHeld,
    release: () => {
      standsStill = false;
      passes.clear();
      release();
    },
    startsSent,
    close: () => connection.close(),
  };
}

/** A message is its bytes here. */
function requestIdsIn(message: unknown): string[] {
  const text = Buffer.from(message as Uint8Array).toString('latin1');
  return text.match(/agent-jobs\/after\/[0-9a-f-]{36}/g) ?? [];
}
