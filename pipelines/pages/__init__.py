"""HTML pages that stand alone: assets, packed data, and the parts that reports and the live page share."""
