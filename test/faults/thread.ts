// Loaded into the server's worker threads before their own module, so that their reads of the data directory and their
// connections count and fail as well.
import { syncBuiltinESMExports } from 'node:module'
import { workerData } from 'node:worker_threads'
import { layFiles } from './files.ts'
import { Control } from './plan.ts'
import { laySockets, Ports } from './sockets.ts'

const { memory, ports, root } = workerData as Record<'memory' | 'ports', SharedArrayBuffer> & { root: string }
const control = new Control(memory)
layFiles(control, root)
laySockets(control, new Ports(ports))
syncBuiltinESMExports()
