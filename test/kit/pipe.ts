// A named pipe. mkfifo is called by its path, because tests also run where PATH only contains Node and npm.
import { execFileSync } from 'node:child_process'

/** Makes a named pipe at this path. */
export const makePipe = (path: string): void => void execFileSync('/usr/bin/mkfifo', [path])
