// Erases an address from notices, and from the names of tokens.
import { redacting } from '../store/erasing.ts'

export const forgetInNotices = redacting('notices', ['subject', 'text', 'response'])
export const forgetInTokens = redacting('tokens', ['name'])
