import { chmodSync, lstatSync, mkdirSync } from 'node:fs';

const WRITABLE_BY_ALL = 0o002;
const OPEN_TO_OTHERS = 0o077;

/** A folder that others own or may have put something into. */
export class ForeignFolderError extends Error {
  override readonly name = 'ForeignFolderError';
}

/** Makes the folder where it is missing, for this user alone; throws a ForeignFolderError where another user may have filled it. */
export function makePrivateFolder(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return closeToOthers(folder);
}

/** The same for a folder that is there. */
export function closeToOthers(folder: string): string {
  const found = lstatSync(folder);
  if (!found.isDirectory()) throw new ForeignFolderError(`${folder} is not a folder, but a link or a file`);
  // Windows keeps no such owner and mode; its folders of a user are closed to the others.
  const user = process.getuid?.();
  if (user === undefined) return folder;
  if (found.uid !== user) {
    throw new ForeignFolderError(`${folder} belongs to user id ${found.uid}, and this process runs as ${user}`);
  }
  if ((found.mode & WRITABLE_BY_ALL) !== 0) throw new ForeignFolderError(`${folder} can be written by every user`);
  if ((found.mode & OPEN_TO_OTHERS) !== 0) chmodSync(folder, 0o700);
  return folder;
}
