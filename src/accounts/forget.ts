// Forgets an address in what owners were told, and in the names they gave.
import { redacting } from '../store/erasing.ts'

export const forgetInNotices = redacting('notices', ['subject', 'text', 'response'])
export const forgetInTokens = redacting('tokens', ['name'])
