// The worker thread of the console: it reads pages that strangers wrote (apart.ts).
import { serveJobs } from '../base/threads/jobs.ts'
import { render, type RenderedContent } from '../message/rendered.ts'
import type { TemplateValues } from '../message/template.ts'
import { harmlessPage, type HarmlessPage, type PageJob } from './harmless.ts'

/** HTML, or a campaign whose tags are to be filled. */
export type RenderSource = string | { content: RenderedContent; values: TemplateValues }

export type ApartJob = Omit<PageJob, 'html'> & { source: RenderSource }

const perform = ({ source, ...job }: ApartJob): HarmlessPage =>
  harmlessPage({ ...job, html: typeof source === 'string' ? source : render(source.content, source.values).html })

serveJobs<ApartJob, HarmlessPage>(perform, { lot: 1 })
