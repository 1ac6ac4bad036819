/** What the SDK finds in the context of a workflow, and reads once it is loaded: import it before the SDK. */
import { AsyncLocalStorage } from 'node:async_hooks';

Object.assign(globalThis, { AsyncLocalStorage });
