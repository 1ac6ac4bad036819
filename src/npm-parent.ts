const LOOK_EVERY_MS = 300;

/**
 * Takes the end of the process that npm started for us as a SIGTERM, where `npm run <script>` did so. npm passes its own
 * signal to a shell, and a shell such as Debian's ends without telling what runs in it.
 */
export function endWithNpm(script: string): void {
  if (process.env['npm_lifecycle_event'] !== script) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, 'SIGTERM');
  }, LOOK_EVERY_MS);
  timer.unref();
}
