// Limits how many messages are read at once: for clients that wait (downloads of attachments, mail from SMTP
// submission), and where there is little memory.
import { semaphore, type TaskTurns } from '../base/semaphore.ts'
import type { Pool } from '../base/threads/pool.ts'
import type { InboundJob, InboundResult } from './reader.ts'

type ReaderPool = Pick<Pool<InboundJob, InboundResult>, 'run'>

/** The most messages in files: each takes as much memory as it has octets. */
const FILES = 2
/**
 * The most messages in memory. This is more than the number of threads: between two jobs of a thread the main thread
 * makes a turn of its event loop with a commit, and messages that are read together share a commit.
 */
const SMALL = 16

/** No limit. */
export const unlimited: TaskTurns = (work) => work()

/** The reader with these limits on jobs of each kind at once; further jobs wait in order. */
export function inTurns(reader: ReaderPool, files = semaphore(FILES), small = semaphore(SMALL)): ReaderPool {
  return {
    run(job, effort) {
      const turn = job.content !== null && 'file' in job.content ? files : small
      return turn(() => reader.run(job, effort))
    },
  }
}
