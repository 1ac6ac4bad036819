/**
 * The title of the test that holds each promise of docs/promises.md, by its file below test/ and the fault of its row.
 * The faults of a write are in `promises.ts`.
 */
export const HELD_BY: Record<string, Record<string, string>> = {
  'workflows/ends': {
    'the pull request comes after `completed`, or goes again': '%s is told as it is in the end',
    'the create’s own answer says that the job has ended':
      'a create whose own answer says `completed` is polled until its link is there',
    'the end of an earlier prompt is shown after a follow-up': 'after a follow-up: %s',
    'the upstream goes on changing between ends':
      'an upstream that flaps each second ends after ten times `settle`, and the result says why',
    'a page polls the job by `pollNow` all the time': 'a page that polls the job every five seconds delays no end',
    'the deadline passes while an end stands':
      'a deadline within `settle` gives the end that was read last, and says so',
    'the upstream gives a status that its interface does not name':
      'a deadline while the upstream is at work, and a status that no page names, are told in the result',
  },
  'request-queue/skipped-time': {
    'many wait, of several priorities': 'those of a higher priority go first, and within one those who asked first',
    'one that waits asks again': 'who asks again keeps the place, and may change the priority',
    'a budget is set': 'a set budget lets so many go at once, and the others when the hour frees their turns',
    'a job is terminated while it waits': 'a turn for a workflow that is not there goes to the next one at once',
    'a turn is lost with its worker, or never reported':
      'a turn that is not reported in time counts as used, and a late report corrects nothing',
    'a 429 is reported after the end of its turn':
      'a 429 that is reported after the end of its turn holds the others for as long as it said',
  },
  'unit/request-queue': {
    'no budget is known':
      'whatever is killed, and however the clock is set back, all are served and no promise is broken',
    'a budget of a day is set, alone or beside one of an hour':
      'never above the budgets of an hour and a day, with workers killed and the queue continued as new',
    'the queue of a project with a budget is terminated':
      'after a queue was terminated, at most twice the budget is sent in any hour or day',
    '300 creates meet a budget of 100 an hour':
      '300 creates at 100 an hour keep the promise, with the budget set and without',
    '90 creates meet a limit of 30 a minute, and no `Retry-After`':
      '90 creates at 30 a minute without Retry-After: all within eight minutes',
  },
  'worker/budget-change': {
    'a raised budget, or `unlimited`, while jobs wait':
      'those that wait go when the budget in the file is raised from 1 to 1000, or becomes "unlimited"',
    'a raised budget of a day while jobs wait':
      'those that wait for the budget of a day say so, and go when it is raised in the file',
  },
  'export/two-workers': {
    'exports at the same time':
      'two exports and a backfill over two processes make no more than their one budget in any hour',
  },
  'export/shared-budget': {
    'exports are answered 429, and no budget is set':
      'without a set budget exports that are answered 429 share what the upstream takes',
    'exports of several priorities wait': 'the export of higher priority goes first, even if another asked before',
    'an export is cancelled while it waits':
      'an export that is cancelled while it waits leaves its place to the others',
    'a worker is killed while it reads an export': 'a chunk whose worker is killed has spent its whole turn',
    "no worker takes an export's turn in time":
      'a turn that comes to no worker in time is given back unused, and another one is asked for',
    'the queue of all exports is terminated': 'a queue that is terminated delays the exports that wait, and stops none',
  },
  'workflows/waiting-writes': {
    'a create waits longer than `deadline`':
      'a create that waits outlives its deadline, and ends at the end of startWithin',
    'a follow-up waits longer than `deadline`':
      'a follow-up that waits outlives the deadline while the job is read on, and a cancellation abandons it',
  },
  'workflows/policy-retry': {
    'a write in doubt waits for its turn after `deadline`':
      'a create in doubt that is throttled from then on is sent in its turn',
  },
  'workflows/turns-over-hours': {
    'a wait of hours': 'a job that waits asks again every 13 to 20 minutes, for 12 events and 4 actions',
    'the queue workflow is terminated':
      'those whose queue is terminated ask again within 20 minutes, and none is lost or doubled',
  },
  'activities/gate': {
    'none: a lone job': 'writes of a quiet project cost their fences, and one question to the server each half minute',
  },
  'workflows/waiting-life': {
    'anything keeps a job waiting': 'from its start to its end a job shows what it waits for, whatever fails',
  },
  'workflows/poll-health': {
    'the upstream fails the polls of a job': 'a spell of trouble with %s costs at most 25 history events',
    'the upstream flaps': 'an upstream that flaps is shown again at most every ten minutes, and each recovery at once',
  },
  'request-queue/real-time': {
    'jobs are cancelled while they wait':
      'a thousand workflows that have ended hold up the one behind them for few tasks of the queue',
    'the worker of the queue is killed': 'killed workers of the queue cost no turn and double none',
    'the queue continues as new under load':
      'under traffic the queue continues as new again and again, and loses no place',
  },
  'worker/queue-kills': {
    'the worker of a job is killed with a turn':
      'workers that are killed while jobs wait, or with a turn, cost no job and double none',
    'Temporal is killed':
      'Temporal that is killed while jobs wait and while turns are given costs no job and doubles none',
  },
  'workflows/turns': {
    'a turn comes too late':
      'a turn that comes too late is not used: the job keeps its place, and sends with the next one',
    'the queue is reset by an operator':
      'jobs that have sent give back the turns that a queue gives them after its reset',
    'a turn of the other kind of write reaches a job that waits':
      'a follow-up that waits for its turn does not take one of the queue of creates',
    'a turn comes twice': 'a turn that comes twice sends once, and one that no write waits for sends nothing',
  },
  'workflows/late-attempts': {
    'a turn ends while its write waits for a worker':
      'a turn that ended while its write waited for a worker is not used',
    'attempts waited hours for a worker, as in an outage':
      'a 429 that an old attempt met holds the jobs that are started since, as any other',
  },
  'unit/budgets': {
    'the budgets file breaks while the worker runs':
      'each new problem of the file is reported once, and its last good content holds',
  },
  'cli/start-from': {
    'a file of jobs has wrong lines':
      'each line has one outcome: an invalid one says what is wrong, and the others go on',
  },
  'e2e/encryption': {
    'a stranger reads the database, the logs or the metrics':
      'with keys no word of a prompt is in database, logs, metrics or output, over a rotation',
    'the key is replaced under running jobs':
      'with keys no word of a prompt is in database, logs, metrics or output, over a rotation',
  },
  'unit/payload-codec': {
    'a payload comes whose key is not in the file yet': 'a key that is not known yet is looked for in the file at once',
    'the file of keys breaks while it is in use':
      'while the file is broken or gone its last good content holds; without one it is refused',
    'a ciphertext was changed, cut, or is of another key with the same id':
      'what was changed, or encrypted with another key of the same name, is refused without a word of it',
  },
  'e2e/mixed-keys': {
    'a worker without the keys runs among workers with them':
      'no request leaves without its project and prompt, and no job is created twice',
  },
  'client/codec': {
    'a caller has keys in its environment and no codec':
      'a caller with a file of keys in its environment and no codec is warned',
  },
  'worker/upstream-texts': {
    'the upstream repeats the prompt in an error':
      'no text of the upstream is in a log line, and none is shown where prompts are hidden',
  },
  'e2e/recurring': {
    'any Schedule starts the job, with nothing but an input':
      'a stranger’s Schedule and our own create one job for each of their runs',
    'a Schedule makes up for a time whose job has ended':
      'a time whose job has ended asks before it creates another; one whose create was rejected does not',
    'a scheduled job waits for a person, or is followed up after its end':
      'a job that waits for a person holds the next time up; one that is followed up does not',
  },
  'workflows/continue-as-new': {
    'a traced job goes on in a new run': 'has the trace context of the caller that started the job',
  },
  'workflows/trace-context': {
    'the header of the trace context is malformed, huge, or no text':
      'a header that is no trace context harms nothing, and is not handed on',
    'no caller sends a trace context':
      'the trace context of a caller is handed on to each activity of the job, and none without one',
  },
  'e2e/certificates': {
    'the client certificate is replaced by one of another authority, and the worker is restarted':
      'a worker that is restarted with a client certificate of another authority goes on with its jobs',
  },
  'worker/connection': {
    'the certificate expires while a worker waits for Temporal':
      'a worker that waits for Temporal tries with the certificate that its files have by then',
  },
  'http/jobs': {
    'a start is repeated under its `Idempotency-Key`':
      'a start repeated under its Idempotency-Key makes no second job; with another prompt it conflicts',
  },
  'http/access': {
    'a path, or an id, names the job of another project':
      "another project's job is 403 by every address, whether or not it is there",
  },
  'http/hostile': {
    'bytes that a proxy may read otherwise': 'paths that a proxy may read otherwise lead to no other project',
  },
  'http/mcp': {
    'an agent repeats its start, without a key':
      'an agent that repeats its start without a key makes no second job, and waits for the result',
  },
  'e2e/webhooks': {
    'every worker is killed again and again, and the receiver fails':
      'every worker is killed again and again, and the receiver fails: each end is sent, by one id',
    'the file of the endpoints is wrong': 'a wrong file is reported, and the worker does its jobs',
  },
  'webhooks/sweep': {
    'the workflow that finds events begins a new run':
      'a run of the workflow that is full hands on what it knows: nothing is reported twice or left out',
    'the workflow that finds events is terminated':
      'a sweep that was terminated goes on from there, and reports nothing twice',
    'a job is reset': 'a run that is reset is no end: the job goes on',
  },
  'webhooks/delivery': {
    'a receiver is down for two hours': 'a receiver that is down for two hours gets the same event, signed anew',
  },
  'webhooks/deliveries': {
    'a receiver hangs, with 60 deliveries to it': 'beside 60 deliveries to a receiver that hangs, another one is made',
  },
  'webhooks/post': {
    'a receiver answers with a redirect': 'a redirect is an answer, and is not followed',
  },
  'workflows/unknown': {
    'a person adopts a job that is older than the first send of the create':
      'a job that is older than the first send is adopted with force alone, however long the run waited',
  },
  'workflows/adopt': {
    'a person adopts a job that another workflow holds': 'a job that another workflow has is adopted with force alone',
  },
  'client/re-attach': {
    "a follow-up's id is repeated with another prompt":
      'a follow-up id that is repeated with another prompt conflicts, in every later run too',
  },
  'cli/resolve': {
    'a script says `retry` before a check upstream can be trusted':
      'a script may not say retry before a check upstream can be trusted, but with --yes',
  },
};

/** Why no mutant breaks the promise of a row. */
export const WITHOUT_MUTANT: Record<string, string> = {
  'a turn comes twice': 'a write has one state, and no single change sends it twice',
  'a scheduled job waits for a person, or is followed up after its end': 'the overlap policy is Temporal’s own',
  'the worker of the queue is killed': 'Temporal replays a workflow',
  'Temporal is killed': 'Temporal keeps what it has confirmed; the fence has mutants of its own',
  'the client certificate is replaced by one of another authority, and the worker is restarted':
    'a process reads its files as it starts',
};
