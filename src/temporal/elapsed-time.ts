/** How much time has passed, whatever happens to one of the clocks. */
import { uptime } from 'node:os';

/**
 * Milliseconds since the call, by the clock that says most. The monotonic clock stands still while a machine is
 * suspended. The boot clock stands still while a copy of the machine is restored elsewhere. The wall clock may be set
 * back.
 */
export function startStopwatch(): () => number {
  const begun = readClocks();
  return () => Math.max(...readClocks().map((now, clock) => now - (begun[clock] ?? now)));
}

function readClocks(): number[] {
  return [performance.now(), uptime() * 1_000, Date.now()];
}
