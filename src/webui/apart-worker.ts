// The worker thread of the console: it reads what strangers wrote, pages and lists (apart.ts).
import { serveJobs } from '../base/threads/jobs.ts'
import { render, type Content } from '../message/rendered.ts'
import type { Values } from '../message/template.ts'
import { harmlessPage, type HarmlessPage, type PageJob } from './harmless.ts'
import { readTable, type Sheet } from './table.ts'

/** HTML, or a campaign whose tags are to be filled. */
export type Source = string | { content: Content; values: Values }

export type ApartJob = (Omit<PageJob, 'html'> & { task: 'page'; source: Source }) | { task: 'table'; bytes: Uint8Array }
export type ApartResult = HarmlessPage | Sheet | string

function perform(job: ApartJob): ApartResult {
  if (job.task === 'table') return readTable(job.bytes)
  const { source } = job
  return harmlessPage({
    ...job,
    html: typeof source === 'string' ? source : render(source.content, source.values).html,
  })
}

serveJobs<ApartJob, ApartResult>(perform, { lot: 1 })
