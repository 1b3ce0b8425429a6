// Erases an address from the texts of the event log; the events stay.
import { redacting } from './erasing.ts'

export const forgetInEvents = redacting('events', ['data'])
