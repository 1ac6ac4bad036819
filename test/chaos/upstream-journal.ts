import { closeSync, existsSync, openSync, readSync } from 'node:fs';

/** What the upstream did, read from its own journal: each prompt's jobs, and each job's messages in order. */
export class UpstreamJournal {
  readonly jobsOfPrompt = new Map<string, string[]>();
  readonly messagesOfJob = new Map<string, string[]>();
  messages = 0;
  readonly #journal: string;
  #read = 0;
  #rest = '';

  constructor(journal: string) {
    this.#journal = journal;
  }

  /** Takes in what has been written since the last time. */
  refresh(): void {
    if (!existsSync(this.#journal)) return;
    const file = openSync(this.#journal, 'r');
    const buffer = Buffer.alloc(1024 * 1024);
    try {
      for (let bytes; (bytes = readSync(file, buffer, 0, buffer.length, this.#read)) > 0; this.#read += bytes) {
        // The journal is ASCII: prompts here have no other characters.
        const lines = (this.#rest + buffer.toString('latin1', 0, bytes)).split('\n');
        this.#rest = lines.pop() ?? '';
        for (const line of lines) this.#enter(JSON.parse(line) as Entry);
      }
    } finally {
      closeSync(file);
    }
  }

  get jobs(): number {
    return this.messagesOfJob.size;
  }

  #enter({ type, id, prompt = '' }: Entry): void {
    if (type === 'create') {
      this.jobsOfPrompt.set(prompt, [...(this.jobsOfPrompt.get(prompt) ?? []), id]);
      this.messagesOfJob.set(id, []);
    } else if (type === 'message') {
      this.messagesOfJob.get(id)?.push(prompt);
      this.messages += 1;
    }
  }
}

interface Entry {
  type: string;
  id: string;
  prompt?: string;
}
