// The worker thread that composes an email for its owner to read (source.ts).
import { serveJobs } from '../base/threads/jobs.ts'
import { unsigned, type UnsignedJob } from '../message/unsigned.ts'

serveJobs<UnsignedJob, Uint8Array>((job) => new Uint8Array(unsigned(job)), { lot: 1 })
