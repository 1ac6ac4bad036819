/** What `/metrics` tells, as Prometheus reads it; no project, key or job is named. */

/** Counts answers by route. */
export class Figures {
  readonly #answers = new Map<string, number>();

  /** Counts an answer; null where the request fits no route of the table. */
  count(route: { method: string; path: string } | null, status: number): void {
    const { method, path } = route ?? { method: 'none', path: 'none' };
    const labels = `method="${method}",route="${path}",status="${status}"`;
    this.#answers.set(labels, (this.#answers.get(labels) ?? 0) + 1);
  }

  /** The text of all figures; `open` has the routes of the requests that are under way. */
  text(open: readonly ({ path: string } | null)[]): string {
    const answers = [...this.#answers].map(([labels, count]) => `agent_jobs_http_requests_total{${labels}} ${count}`);
    const streams = open.filter((route) => route?.path.endsWith('/events')).length;
    return [
      ...['# TYPE agent_jobs_http_requests_total counter', ...answers],
      ...['# TYPE agent_jobs_http_open_requests gauge', `agent_jobs_http_open_requests ${open.length}`],
      ...['# TYPE agent_jobs_http_open_streams gauge', `agent_jobs_http_open_streams ${streams}`, ''],
    ].join('\n');
  }
}
