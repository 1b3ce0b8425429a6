// The worker thread that works on the texts of campaigns (content-apart.ts).
import { serveJobs } from '../base/threads/jobs.ts'
import { TASKS, type ContentJob } from './content-tasks.ts'

serveJobs<ContentJob, unknown>(({ args, task }) => (TASKS[task] as (...args: unknown[]) => unknown)(...args), {
  lot: 1,
})
