// Loaded into the appliance's worker threads before their own module: what they read of the data directory counts and
// fails as well.
import { workerData } from 'node:worker_threads'
import { layFiles } from './files.ts'
import { Control } from './plan.ts'

const { memory, root } = workerData as { memory: SharedArrayBuffer; root: string }
layFiles(new Control(memory), root)
