// Digests of all rows whose texts are sent, pushed to webhooks or shown, or give somebody a right; existing rows get
// their digests now.
import { widerDigestSchema } from '../digests.ts'

export const digests = widerDigestSchema
