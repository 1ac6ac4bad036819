/**
 * The SDK's client fails a whole list when one memo of it can't be decoded. temporalio/sdk-typescript#1139 is about the
 * same fault in workers: one payload that can't be decoded fails every workflow task of its workflow (see
 * payload-converter.ts). This can go when the SDK hands out memos undecoded.
 */
import { WorkflowClient, type Client, type WorkflowClientOptions } from '@temporalio/client';
import type { PayloadCodec, PayloadConverter } from '@temporalio/common';

/**
 * Reads workflows as the client does, but a memo field that can't be decoded, such as one of another service under
 * its own key, is undefined: one foreign memo must not end a whole list.
 */
export function lenientWorkflowClient(client: Client): WorkflowClient {
  return new WorkflowClient(lenientOptions(client));
}

/** The options of a client that reads as `lenientWorkflowClient` does. */
export function lenientOptions({ connection, options }: Client): Omit<WorkflowClientOptions, 'interceptors'> {
  const { namespace, identity, loadedDataConverter } = options;
  return { connection, namespace, identity, dataConverter: lenient(loadedDataConverter) };
}

type LoadedDataConverter = Client['options']['loadedDataConverter'];

function lenient({ payloadConverter, payloadCodecs, ...others }: LoadedDataConverter): LoadedDataConverter {
  return {
    ...others,
    payloadConverter: new LenientConverter(payloadConverter),
    payloadCodecs: payloadCodecs.map((codec) => new LenientCodec(codec)),
  };
}

type Payload = Parameters<PayloadConverter['fromPayload']>[0];

class LenientConverter implements PayloadConverter {
  readonly #strict: PayloadConverter;

  constructor(strict: PayloadConverter) {
    this.#strict = strict;
  }

  toPayload<T>(value: T): Payload {
    return this.#strict.toPayload(value);
  }

  fromPayload<T>(payload: Payload): T {
    try {
      return this.#strict.fromPayload(payload);
    } catch {
      return undefined as T;
    }
  }
}

/** Hands on as it is what the codec can't decode, for the converter to judge. */
class LenientCodec implements PayloadCodec {
  readonly #strict: PayloadCodec;

  constructor(strict: PayloadCodec) {
    this.#strict = strict;
  }

  encode(payloads: Payload[]): Promise<Payload[]> {
    return this.#strict.encode(payloads);
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return await this.#strict.decode(payloads).catch(() => payloads);
  }
}
