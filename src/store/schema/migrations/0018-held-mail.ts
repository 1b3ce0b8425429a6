// An index to count held recipients by lane without reading every delivery. Only held recipients are in the index, so
// that mail can be accepted and settled without writing it.

export const heldMail = `
create index deliveries_held on deliveries (lane) where status = 'held';
`
