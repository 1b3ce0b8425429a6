// A worker for tests of the engine that obeys messages: it exits, loops or requests an answer.
import { ask, serveJobs } from '../../src/base/threads/jobs.ts'
import type { InboundJob, InboundResult, Judgement, Reading } from '../../src/inbound/reader.ts'

const header = {
  headers: {},
  subject: null,
  from: null,
  to: [],
  cc: [],
  reply_to: [],
  message_id: null,
  in_reply_to: null,
  references: [],
}

async function perform(job: InboundJob): Promise<InboundResult> {
  if (job.task === 'examine') {
    const reading = (await perform({ ...job, task: 'read' })) as Reading
    const judgement = (await perform({ ...job, task: 'judge' })) as Judgement
    return { kind: 'examined', reading, judgement }
  }
  const text = job.content instanceof Uint8Array ? Buffer.from(job.content).toString() : ''
  if (text.includes(`${job.task} dies`)) process.exit(1)
  while (text.includes(`${job.task} burns`));
  if (text.includes(`${job.task} fills`))
    // In large arrays, which fill the heap long before the budget of CPU time is used up, on a busy machine too.
    for (const all: number[][] = []; ;) all.push(Array.from<number>({ length: 100_000 }).fill(0.5))
  if (text.includes(`${job.task} throws`)) throw new TypeError('a fault of ours')
  if (text.includes(`${job.task} asks`)) await ask(text.trim())
  if (job.task === 'judge') {
    const result = 'unjudged' in job ? 'temperror' : 'pass'
    return {
      verdicts: { spf: 'pass', dkim: result, dmarc: result, arc: 'none' },
      field: null,
      beyond: null,
      proven: false,
      author: null,
      signed: false,
    }
  }
  return { kind: 'read', header, body: { text, html: null, attachments: [] }, report: undefined }
}

serveJobs(perform, { lot: 1 })
