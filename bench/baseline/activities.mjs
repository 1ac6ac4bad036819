// The usual activities: one HTTP call each, by plain fetch.
const { BENCH_UPSTREAM: upstream, BENCH_KEY: key } = process.env;
const jobs = `${upstream}/v2/agent/bench/job`;

async function call(url, prompt) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(
    url,
    prompt === undefined ? { headers } : { headers, method: 'POST', body: JSON.stringify({ prompt }) },
  );
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(`upstream answered ${response.status}`);
  }
  return response.json();
}

export const createJob = (prompt) => call(jobs, prompt);
export const getJob = (id) => call(`${jobs}/${id}`);
export const sendMessage = (id, prompt) => call(`${jobs}/${id}/message`, prompt);
