// Submission as a part of the server. server/submission.ts opens its ports.
import { part } from '../parts/part.ts'
import { rawEmails, type RawParts } from './api.ts'

export const submissionPart = part<RawParts>('submission', { resources: [rawEmails] })
