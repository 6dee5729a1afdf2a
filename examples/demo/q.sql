-- Orders that were underpaid and shipped all the same, with the pages their customer looked at just before.
SELECT o.order_id, o.customer, o.total, p.amount, o.total - p.amount AS missing, s.carrier, c.page
FROM orders [RANGE 2 MINUTES] o,
     payments [RANGE 2 MINUTES] p,
     shipments [RANGE 2 MINUTES] s,
     clicks [RANGE 10 SECONDS] c
WHERE o.order_id = p.order_id
  AND o.order_id = s.order_id
  AND c.customer = o.customer
  AND p.amount < o.total
  AND c.page IN ('cart', 'help', 'item')
