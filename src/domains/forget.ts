// Erases an address from stored DNS answers: they may name people, as DMARC's rua does.
import { redacting } from '../store/erasing.ts'

export const forgetInRecords = redacting('records', ['observed'])
