// The worker thread that reads lists for the console (apart.ts).
import { serveJobs } from '../base/threads/jobs.ts'
import { readUpload } from './upload.ts'

serveJobs(readUpload, { lot: 1 })
