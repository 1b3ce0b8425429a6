// A named pipe. Its program is called by its path: a test must also run where PATH leads to Node and npm alone.
import { execFileSync } from 'node:child_process'

/** Makes a named pipe at this path. */
export const makePipe = (path: string): void => void execFileSync('/usr/bin/mkfifo', [path])
