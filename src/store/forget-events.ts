// Forgets an address in the event log: what was said of it in words is marked, what happened stays.
import { redacting } from './erasing.ts'

export const forgetInEvents = redacting('events', ['data'])
