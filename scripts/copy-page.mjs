/** Copies the page for people, which needs no build, beside the compiled server that serves it. */
import { cpSync } from 'node:fs';

cpSync('src/http/page', 'dist/http/page', { recursive: true });
