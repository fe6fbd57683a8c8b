//! Gives each row of a table as many cells as the others: what is not a rectangle is no table in
//! Markdown, and its cells would run into each other.

use dom_query::{Document, NodeRef};

/// Wider tables stay as they are.
const MAX_COLUMNS: usize = 64;

/// Cells that may be added to the tables of a page.
const MAX_ADDED: usize = 20_000;

/// Fills the place of cells that reach over several, and short rows. A table of code becomes plain
/// blocks, since a cell has one line.
pub(super) fn make_rectangular(document: &Document) {
    let mut filler = Filler { document, left: MAX_ADDED };
    for table in document.select("table").nodes() {
        if table.descendants_it().any(|node| node.has_name("pre")) {
            become_blocks(table);
        } else {
            // Where no more may be added, the rest stays as it is.
            _ = filler.fill(&rows_of(table));
        }
    }
}

fn become_blocks(table: &NodeRef<'_>) {
    let parts = ["table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption"];
    let nodes: Vec<_> = table.descendants_it().collect();
    for node in nodes.iter().chain([table]) {
        if parts.iter().any(|name| node.has_name(name)) {
            node.rename("div");
        }
    }
}

/// The rows of the table itself, not those of a table in a cell.
fn rows_of<'a>(table: &NodeRef<'a>) -> Vec<NodeRef<'a>> {
    let is_part =
        |node: &NodeRef<'_>| ["thead", "tbody", "tfoot"].iter().any(|it| node.has_name(it));
    let rows = table.children_it(false).flat_map(|child| {
        if is_part(&child) { child.children_it(false).collect() } else { vec![child] }
    });
    rows.filter(|row| row.has_name("tr")).collect()
}

/// Adds cells, as many as may be added to a page.
struct Filler<'a> {
    document: &'a Document,
    left: usize,
}

impl<'a> Filler<'a> {
    fn cell(&mut self) -> Option<NodeRef<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(self.document.tree.new_element("td"))
    }

    /// `None`: not all could be added.
    fn fill(&mut self, rows: &[NodeRef<'_>]) -> Option<()> {
        // For how many rows more a cell above reaches into each column.
        let mut reaching: Vec<usize> = Vec::new();
        let mut widths = Vec::new();
        for row in rows {
            let mut column = 0;
            for cell in row.children_it(false).filter(is_cell).collect::<Vec<_>>() {
                while column < MAX_COLUMNS && take_reaching(&mut reaching, column) {
                    cell.insert_before(&self.cell()?);
                    column += 1;
                }
                let (wide, high) = (span_of(&cell, "colspan"), span_of(&cell, "rowspan"));
                let wide = wide.min(MAX_COLUMNS.saturating_sub(column).max(1));
                reaching.resize(reaching.len().max(column + wide), 0);
                reaching[column..column + wide].fill(high - 1);
                column += wide;
                for _ in 1..wide {
                    cell.insert_after(&self.cell()?);
                }
            }
            while column < MAX_COLUMNS && take_reaching(&mut reaching, column) {
                row.append_child(&self.cell()?);
                column += 1;
            }
            widths.push(column);
        }
        let widest = widths.iter().copied().max().unwrap_or_default();
        for (row, width) in rows.iter().zip(widths) {
            for _ in width..widest {
                row.append_child(&self.cell()?);
            }
        }
        Some(())
    }
}

/// Whether a cell above reaches into this column.
fn take_reaching(reaching: &mut [usize], column: usize) -> bool {
    match reaching.get_mut(column) {
        Some(rows) if 0 < *rows => {
            *rows -= 1;
            true
        }
        _ => false,
    }
}

fn is_cell(node: &NodeRef<'_>) -> bool {
    node.has_name("td") || node.has_name("th")
}

/// How many columns or rows a cell reaches over.
fn span_of(cell: &NodeRef<'_>, attribute: &str) -> usize {
    let span = cell.attr(attribute).and_then(|span| span.trim().parse().ok());
    span.unwrap_or(1).clamp(1, 1_000)
}
