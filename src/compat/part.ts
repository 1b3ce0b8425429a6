// The compatibility APIs as parts of the server.
import { part } from '../parts/part.ts'
import { createCompat, type CompatDeps } from './kit.ts'
import { resend } from './resend.ts'

export const resendPart = part<CompatDeps>('resend', { routes: (deps, inside) => createCompat(deps, inside, resend) })
