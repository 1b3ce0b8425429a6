// Erases an address from stored DNS answers, because they may contain addresses of people (rua in DMARC).
import { redacting } from '../store/erasing.ts'

export const forgetInRecords = redacting('records', ['observed'])
