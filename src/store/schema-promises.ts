// The sixth migration: what keeps promises when the machine fails.
import { digestSchema } from './digests.ts'

export const promises = `
alter table deliveries add column trouble_since integer;
alter table agents add column paused_at integer;
${digestSchema}`
