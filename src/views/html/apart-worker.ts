// The worker thread of the console, which reads untrusted content (apart.ts).
import { serveJobs } from '../../base/threads/jobs.ts'
import { render, type RenderedContent } from '../../message/rendered.ts'
import { escapeHtml, type TemplateValues } from '../../message/template.ts'
import { harmlessPage, type HarmlessPage, type PageJob } from './harmless.ts'

/** HTML, or a campaign with tags to fill. `plain`: its plain text. */
export type RenderSource = string | { content: RenderedContent; values: TemplateValues; plain?: boolean }

export type ApartJob = Omit<PageJob, 'html'> & { source: RenderSource }

function perform({ source, ...job }: ApartJob): HarmlessPage {
  if (typeof source === 'string') return harmlessPage({ ...job, html: source })
  const { html, text } = render(source.content, source.values)
  if (!source.plain) return harmlessPage({ ...job, html })
  return { body: `<pre>${escapeHtml(text ?? '')}</pre>`, styles: '', urls: [] }
}

serveJobs<ApartJob, HarmlessPage>(perform, { lot: 1 })
