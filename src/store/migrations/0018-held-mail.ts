// Held recipients are counted by lane without reading every delivery. Nothing else is in the index, so that accepting
// and settling mail do not write it.

export const heldMail = `
create index deliveries_held on deliveries (lane) where status = 'held';
`
