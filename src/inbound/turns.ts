// How many messages are read at once for those who wait: downloads of attachments, and mail from SMTP submission.
import { semaphore } from '../base/semaphore.ts'
import type { Pool } from '../base/pool.ts'
import type { InboundJob, InboundResult } from './reader.ts'

type Reader = Pick<Pool<InboundJob, InboundResult>, 'run'>

/** Messages in files: each takes as much memory as it has octets. */
const FILES = 2
/**
 * Messages in memory. More than there are threads: between two jobs of a thread is a turn of the main thread's event
 * loop, with a commit in it, and what is read together is written together.
 */
const SMALL = 16

/** The reader, with so many jobs of each kind at once; the others wait in order. */
export function inTurns(reader: Reader): Reader {
  const files = semaphore(FILES)
  const small = semaphore(SMALL)
  return {
    run(job, effort) {
      const turn = job.content !== null && 'file' in job.content ? files : small
      return turn(() => reader.run(job, effort))
    },
  }
}
