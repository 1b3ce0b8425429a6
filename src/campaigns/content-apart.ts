// Work on the texts of a campaign in a worker thread (content-tasks.ts), with a budget of CPU time and memory, so that
// no campaign stops the server.
import { codeOf, refuse, TOO_LARGE_CODE } from '../base/errors.ts'
import { JobFailed, NoWorker } from '../base/threads/pool.ts'
import { reasonIn, workersOf } from '../views/html/apart.ts'
import type { ContentJob, ContentTasks } from './content-tasks.ts'

const run = workersOf<ContentJob, unknown>(new URL('./content-worker.ts', import.meta.url))

/**
 * The result of a task. Throws a Refusal: 422 when the text is too large or takes too long, 503 when there is no thread
 * for it at present.
 */
export async function contentApart<Task extends keyof ContentTasks>(
  task: Task,
  ...args: Parameters<ContentTasks[Task]>
): Promise<ReturnType<ContentTasks[Task]>> {
  try {
    return (await run({ task, args })) as ReturnType<ContentTasks[Task]>
  } catch (thrown) {
    if (codeOf(thrown) === TOO_LARGE_CODE) throw refuse('message_too_large', (thrown as Error).message)
    if (thrown instanceof JobFailed) throw thrown
    const why = reasonIn(thrown, 'Reading the text of this campaign takes too much time or memory; shorten it.')
    throw refuse(thrown instanceof NoWorker ? 'overloaded' : 'message_too_large', why)
  }
}
