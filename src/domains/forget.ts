// Forgets an address in what DNS answered: it may name people, as DMARC's rua does.
import { redacting } from '../store/erasing.ts'

export const forgetInRecords = redacting('records', ['observed'])
