// Digests of all that is sent, pushed to or authorises; the rows that there are get theirs now.
import { widerDigestSchema } from '../digests.ts'

export const digests = widerDigestSchema
